// One line of JSON per event, written at the edges only (guard, janitor, warden, main). Fields are
// escaped and at most 1 KiB; no secret and no body is ever a field. `text` format is for terminals.
#pragma once

#include <stdarg.h>
#include <stdbool.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

// The process's own word ("daemon", "warden"), and COVE_LOG_LEVEL, COVE_LOG_FORMAT from outside.
// Without a format: text if `fd` is a terminal, else JSON.
void log_open(const char *component, int fd);
// Other settings while it runs; NULL or "": as from outside.
void log_set(const char *level, const char *format);
bool log_wants(enum log_level level);

// Fields are pairs of name and text, ended by NULL; a NULL text leaves its field out:
//	log_event(LOG_INFO, "box.created", "sandbox", id, "trace", req->id, NULL);
void log_event(enum log_level level, const char *what, ...) __attribute__((sentinel));

// The same for what a sandbox can cause as often as it likes: LOG_BOX_LINES a minute of each
// sandbox are written. The first line of a later minute is preceded by "log.suppressed", with how
// many were not. Ears are told all of them. For one thread alone.
#define LOG_BOX_LINES 60
void log_event_of(const char *box, enum log_level level, const char *what, ...)
	__attribute__((sentinel));

// Whatever this thread logs is told to `ear` as well, also below the level. It must not wait.
typedef void log_listener(void *arg, const char *what, va_list fields);
void log_listen(log_listener *ear, void *arg);

// The trace id that log lines of this turn carry, until it is set again. NULL: none.
void log_trace(const char *trace);
const char *log_trace_now(void); // "": none
