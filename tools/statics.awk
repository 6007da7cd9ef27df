# usage: awk -f statics.awk FILE...   -- prints every static function of more than three lines whose
# name another file has for one of its own: a backtrace that shows it would not say which.

/^static .*[a-z0-9_]\(/ {
	name = $0
	gsub(/__attribute__\(\([^)]*\)*\) */, "", name)
	sub(/\(.*/, "", name)
	sub(/.*[ *]/, "", name)
	line = FNR
}
/^{/ { from = FNR }
/^}/ {
	if (name != "" && FNR - from - 1 > 3) {
		if (name in place && file[name] != FILENAME) {
			print FILENAME ":" line ": " name "() is also at " place[name]
			bad = 1
		}
		place[name] = FILENAME ":" line
		file[name] = FILENAME
	}
	name = ""
}
/;$/ && !/^[ \t]/ { name = "" } # a declaration
END { exit bad }
