"""`python -m rheostat`: the same as the `rheostat` command."""

from rheostat.cli import main

main()
