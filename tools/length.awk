# usage: awk -f length.awk FILE...   -- prints every file of more than 600 lines
FNR == 601 { print FILENAME ": over 600 lines: split it by noun"; bad = 1 }
END { exit bad }
