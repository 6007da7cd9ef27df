// Our own terminal: raw while a terminal of a sandbox is shown on it, and as it was whatever ends
// that, signals included.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Every key is a byte that we read, nothing is echoed, no signal is made. False: no terminal.
bool tty_raw(int fd);
// Until tty_restore(): where it is not raw, keys that nobody reads yet wait one by one, ctrl-d
// included, for the next who makes it raw. Signals and echo are as they were.
bool tty_type_ahead(int fd);
void tty_unraw(void);	 // as it was before tty_raw()
bool tty_silent(int fd); // only nothing is echoed: for keys that are typed
void tty_restore(void);	 // harmless twice, and in a signal handler
// False: it does not tell.
bool tty_size(int fd, uint16_t *out_cols, uint16_t *out_rows);
// How wide a table on stdout may be: COLUMNS, else the terminal; 0: it is no terminal.
size_t tty_columns(void);
// Readable each time the size may have changed; -1 when it could not be made.
int tty_resized_fd(void);
