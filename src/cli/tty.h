// Our own terminal: raw while a terminal of a sandbox is shown, and restored whatever ends that,
// signals included.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

// Raw mode: keys are bytes, no echo, no signals. False: not a terminal.
bool tty_raw(int fd);
// Until tty_restore(): while not raw, unread keys are kept one by one, ctrl-d included, for the
// next raw mode. Signals and echo are unchanged.
bool tty_type_ahead(int fd);
void tty_unraw(void); // as it was before tty_raw()
// A secret: typed without echo after the prompt if stdin is a terminal, else the first line of
// stdin, or all of stdin (`whole`); without the newline at its end. The caller wipes *out, also
// after a failure. CANCELLED; TOO_LARGE bad_value: more than *out holds.
fallible tty_read_secret(const char *prompt, bool whole, struct buf *out);
void tty_restore(void); // harmless twice, and in a signal handler
// False: unknown.
bool tty_size(int fd, uint16_t *out_cols, uint16_t *out_rows);
// The width for tables on stdout: COLUMNS, else the terminal's; 0: not a terminal.
size_t tty_columns(void);
// Readable each time the size may have changed; -1 on failure.
int tty_resized_fd(void);
