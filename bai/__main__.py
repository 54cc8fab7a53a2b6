"""`python -m bai`."""

from bai.cli.main import main

if __name__ == "__main__":
    main()
