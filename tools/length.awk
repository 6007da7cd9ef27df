# usage: awk -f length.awk FILE...   -- prints every file of more than 900 lines
FNR == 901 { print FILENAME ": over 900 lines: split it by noun"; bad = 1 }
END { exit bad }
