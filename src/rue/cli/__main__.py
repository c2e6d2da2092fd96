"""`python -m rue.cli`."""

from rue.cli.app import main

if __name__ == "__main__":
    main()
