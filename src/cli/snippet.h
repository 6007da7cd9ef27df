// One cell of code in a context of a sandbox, its events shown as they come.
#pragma once

#include "cli/picture.h"
#include "cli/remote.h"

struct snippet {
	// set by the caller
	struct remote *remote;
	const char *box;
	const char *context;  // NULL: the default one of `language`
	const char *language; // NULL: the context's
	int64_t timeout_ms;   // 0: none
	bool raw;	      // the events themselves, a line each
	bool forgiving;	      // Ctrl-C interrupts the cell and nothing else
	// inside
	enum picture_way way;
	char *left_out; // a kind of result that only another representation can show
	bool failed;
};

// Runs it to its end. *out_failed: its last event was an error, which has been shown.
fallible snippet_run(struct snippet *snippet, struct str code, bool *out_failed);
// A path beneath /api of its sandbox; the caller's.
char *snippet_path(const char *box, const char *rest);
