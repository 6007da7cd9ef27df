// A line that is edited on our terminal, as people are used to it (the keys of emacs and the
// arrows), and a history of lines that is kept in a file.
#pragma once

#include "base/buf.h"
#include "base/err.h"

#define EDIT_LINE_MAX (1 << 20)

struct edit;

// `file` NULL: the history is not kept. A file that cannot be read or written is as none.
struct edit *edit_new(const char *file);
void edit_free(struct edit *edit);
static inline void auto_edit_(struct edit **edit)
{
	edit_free(*edit);
}
#define auto_edit on_exit_call(auto_edit_) struct edit *

enum edit_end {
	EDIT_LINE,
	EDIT_PASTED, // a line of something that was pasted and goes on
	EDIT_CANCEL, // ctrl-c
	EDIT_OVER,   // ctrl-d on an empty line, or the terminal is gone
};
// The terminal is raw only meanwhile. `out` is cleared first.
fallible edit_line(struct edit *edit, const char *prompt, struct buf *out, enum edit_end *out_end);
// For the history: a line that is empty or the same as the last is not added.
void edit_remember(struct edit *edit, struct str line);
