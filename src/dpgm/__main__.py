"""`python -m dpgm` is the `dpgm` command."""

from dpgm.cli import main

if __name__ == "__main__":
    main()
