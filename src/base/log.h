// One line of JSON per event. Fields are escaped and at most 1 KiB; no secret and no body is ever a
// field. The `text` format is for terminals.
#pragma once

#include <stdarg.h>
#include <stdbool.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

// `component` is the process's name ("daemon", "warden"); COVE_LOG_LEVEL and COVE_LOG_FORMAT are
// read. Without a format: text if `fd` is a terminal, else JSON.
void log_open(const char *component, int fd);
// Changes the settings; NULL or "": those of the environment.
void log_set(const char *level, const char *format);
bool log_wants(enum log_level level);

// Fields are pairs of name and text, ended by NULL; a NULL text leaves its field out:
//	log_event(LOG_INFO, "box.created", "sandbox", id, "trace", req->id, NULL);
void log_event(enum log_level level, const char *what, ...) __attribute__((sentinel));

// The same for events that a sandbox can cause at will: LOG_BOX_LINES a minute of each sandbox are
// written. The first line of a later minute is preceded by "log.suppressed", with the number of
// dropped lines. False: the sandbox is over that number. For one thread alone.
#define LOG_BOX_LINES 60
bool log_event_of(const char *box, enum log_level level, const char *what, ...)
	__attribute__((sentinel));

// The trace id of log lines in this turn, until it is set again. NULL: none.
void log_trace(const char *trace);
const char *log_trace_now(void); // "": none
