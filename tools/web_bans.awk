# usage: awk -f web_bans.awk FILE...   -- prints every use in the dashboard of what makes markup or
# code of a string, and of storage that outlives the tab, but for preferences.

BEGIN {
	n = split("innerHTML outerHTML insertAdjacentHTML dangerouslySetInnerHTML document.write createContextualFragment " \
		  "DOMParser srcdoc eval( Function( javascript: importScripts serviceWorker document.cookie", words, " ")
}
{
	for (i = 1; i <= n; i++)
		if (index($0, words[i])) {
			print FILENAME ":" FNR ": " words[i]
			bad = 1
		}
	if (index($0, "localStorage") && FILENAME !~ /\/(theme|preferences)\.ts$/) {
		print FILENAME ":" FNR ": localStorage is for preferences.ts"
		bad = 1
	}
	if (FILENAME ~ /\.html$/ && match($0, /<style|<script( type="module")?>| on[a-z]+=| style=/)) {
		print FILENAME ":" FNR ": inline script or style"
		bad = 1
	}
	if (match($0, /[a-z]+:\/\//) && $0 !~ /^ *\/\//) {
		print FILENAME ":" FNR ": an address"
		bad = 1
	}
	if ($0 ~ /[ \t]$/) {
		print FILENAME ":" FNR ": blanks at the end of the line"
		bad = 1
	}
}
END { exit bad }
