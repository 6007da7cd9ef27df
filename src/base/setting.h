// A setting of the daemon, as documented. The table is in serve/; the command line prints it in
// help, manual and completions.
#pragma once

struct setting {
	const char *name;      // "boxes-max": the flag is --boxes-max; NULL ends the table
	const char *arg;       // "NUMBER", "json|text"
	const char *help;      // what it is
	const char *otherwise; // the default; "": none
};
