"""`dpgm serve`: a web studio on this computer alone, for curators who do not program.

    guard      who may ask: host, token, cookie, origin, sizes, headers
    workspace  projects, ledgers and files of the served folder, as small JSON files
    runs       commands of `dpgm` as child processes: they do the work, and outlive nothing
    library    calls of the library that pages show, in a helper process
    pages      what each page shows: one value, rendered as HTML and as JSON
    actions    what each form does
    server     routes, and the server itself

No page computes anything: each is a call of the library, which has a command of its own.
"""
