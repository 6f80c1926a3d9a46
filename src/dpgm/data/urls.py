"""Addresses of databases, and messages without the credentials that an address may hold."""

import re

from dpgm.errors import UsageError

_MARK = "://"
_FILES = ("sqlite", "duckdb")  # databases that are files: sqlite:///people.db
_SERVERS = ("postgresql", "postgres")
_SERVER = re.compile(
    r"postgres(ql)?://([^\s/?#@]*@)?(?P<place>[\w.,:\-\[\]]*(/[\w.\-]*)?)(\?[^\s#]*)?", re.ASCII | re.IGNORECASE
)
_TABLE = re.compile(r"(?P<address>.*)::(?P<table>[^:/?@]+)", re.DOTALL)
# A path that was made of an address has one slash. Passwords may have blanks, so all up to the last @ is taken away.
_CREDENTIALS = re.compile(
    r"\b([a-z][a-z0-9+.\-]+:/{1,2})(?:[^\s/:@]*:(?:(?!://)[^\n])*@|\S*@)?([^\s?'\"]*)(?:\?[^\s'\";,]*)?",
    re.IGNORECASE,
)
_SETTING = re.compile(r"\b(user|password|passfile|sslpassword)(\s*=\s*)('(?:[^'\\]|\\.)*'|\S+)", re.IGNORECASE)
_SETTINGS = re.compile(r"\s*(host|hostaddr|port|dbname|user|password|service)\s*=.*", re.IGNORECASE | re.DOTALL)
_NO_ADDRESS = (
    "the address is not one of PostgreSQL's, postgresql://user@host/name (% and two digits for each special mark of a"
    " password); correct it."
)


def is_url(path: str) -> bool:
    """Whether this is an address and no path."""
    return _MARK in path


def scheme_of(url: str) -> str:
    """The first word of an address."""
    return url.partition(_MARK)[0].lower()


def path_of(url: str) -> str | None:
    """The path of a database that is a file; None for other addresses.

    >>> path_of("sqlite:///people.db"), path_of("duckdb:////data/people.duckdb"), path_of("s3://bucket/people.csv")
    ('people.db', '/data/people.duckdb', None)
    """
    scheme, rest = scheme_of(url), url.partition(_MARK)[2]
    if scheme not in _FILES:
        return None
    if not rest.startswith("/") or len(rest) == 1:
        raise UsageError(
            f"{without_credentials(url)}: write {scheme}:///people.db for a file here, {scheme}:////data/people.db for"
            " another place."
        )
    return rest[1:]


def server_of(url: str) -> str | None:
    """The name of a database on a server, without user and password; None for other addresses.

    >>> server_of("postgresql://ann:secret@db.example/people?sslmode=require")
    'postgresql://db.example/people'
    """
    if scheme_of(url) not in _SERVERS:
        return None
    found = _SERVER.fullmatch(url)
    if found is None:
        raise UsageError(_NO_ADDRESS)
    return f"postgresql://{found['place']}"


def refuse_settings(path: str) -> None:
    """Refuse an address that is written as settings, `host=db.example user=ann`, without repeating it."""
    if _SETTINGS.fullmatch(path):
        raise UsageError(_NO_ADDRESS)


def split_table(url: str) -> tuple[str, str | None]:
    """An address, and the table that is named after it.

    >>> split_table("postgresql://[::1]/people::visits"), split_table("postgresql://[::1]/people")
    (('postgresql://[::1]/people', 'visits'), ('postgresql://[::1]/people', None))
    """
    found = _TABLE.fullmatch(url)
    return (url, None) if found is None else (found["address"], found["table"])


def without_credentials(text: str) -> str:
    """A message in which addresses have no user, password or options.

    >>> without_credentials("no postgresql://ann:pass/word@host/people?password=x; start it")
    'no postgresql://host/people; start it'
    """
    return _SETTING.sub(r"\1\2...", _CREDENTIALS.sub(lambda found: found[1] + found[2], text))
