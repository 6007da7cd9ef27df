// One cell of code in a context of a sandbox, with its events shown.
#pragma once

#include "cli/picture.h"
#include "cli/remote.h"

struct snippet {
	// Set by the caller.
	struct remote *remote;
	const char *box;
	const char *context;  // NULL: the default one of `language`
	const char *language; // NULL: the context's
	int64_t timeout_ms;   // 0: none
	bool raw;	      // print the raw events, a line each
	bool forgiving;	      // Ctrl-C interrupts the cell and nothing else
	// Private.
	enum picture_way way;
	char *left_out; // a kind of result that cannot be shown
	bool failed;
};

// Runs the cell to its end. *out_failed: it ended with an error, which was shown.
fallible snippet_run(struct snippet *snippet, struct str code, bool *out_failed);
// A path beneath /api of its sandbox; owned by the caller.
char *snippet_path(const char *box, const char *rest);
