// Edits a line on the terminal (emacs keys and arrows), with a history in a file.
#pragma once

#include "base/buf.h"
#include "base/err.h"

#define EDIT_LINE_MAX (1 << 20)

struct edit;

// `file` NULL: the history is not saved. File errors are ignored.
struct edit *edit_new(const char *file);
void edit_free(struct edit *edit);
static inline void auto_edit_(struct edit **edit)
{
	edit_free(*edit);
}
#define auto_edit on_exit_call(auto_edit_) struct edit *

enum edit_end {
	EDIT_LINE,
	EDIT_PASTED, // a line of pasted text that continues
	EDIT_CANCEL, // ctrl-c
	EDIT_OVER,   // ctrl-d on an empty line, or the terminal is closed
};
// The terminal is raw only during the call. `out` is cleared first.
fallible edit_line(struct edit *edit, const char *prompt, struct buf *out, enum edit_end *out_end);
// Adds a line to the history, unless it is empty or equals the last.
void edit_remember(struct edit *edit, struct str line);
