// Errors, with a part for each of four readers:
//
//	the caller    decides by the kind;
//	a program     reads the reason, a stable word;
//	the tenant    reads the message and the hint;
//	the operator  reads the trail: the operation, errno, file and line.
//
// A function that can fail is declared `fallible` and returns NULL on success. An error has one
// owner. It is passed up, or answered to the client, or logged: exactly one of the three.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

// clang-format off
//	  kind             word on the wire    HTTP  exit  may a retry help?
#define ERR_KINDS(X) \
	X(INVALID,         "invalid",          400,  2,    false) \
	X(UNAUTHENTICATED, "unauthenticated",  401,  4,    false) \
	X(FORBIDDEN,       "forbidden",        403,  4,    false) \
	X(NOT_FOUND,       "not_found",        404,  3,    false) \
	X(BAD_METHOD,      "bad_method",       405,  2,    false) \
	X(SLOW_CLIENT,     "slow_client",      408,  7,    true)  \
	X(CONFLICT,        "conflict",         409,  5,    false) \
	X(GONE,            "gone",             410,  3,    false) \
	X(TOO_LARGE,       "too_large",        413,  6,    false) \
	X(MISDIRECTED,     "misdirected",      421,  2,    false) \
	X(UPGRADE,         "upgrade_required", 426,  2,    false) \
	X(EXHAUSTED,       "exhausted",        429,  6,    true)  \
	X(HEAD_TOO_LARGE,  "head_too_large",   431,  6,    false) \
	X(CANCELLED,       "cancelled",        499,  1,    true)  \
	X(INTERNAL,        "internal",         500,  1,    false) \
	X(NOT_OFFERED,     "not_offered",      501,  2,    false) \
	X(BAD_PEER,        "bad_peer",         502,  8,    true)  \
	X(UNAVAILABLE,     "unavailable",      503,  8,    true)  \
	X(TIMEOUT,         "timeout",          504,  7,    true)  \
	X(NO_SPACE,        "no_space",         507,  6,    true)
// clang-format on

enum err_kind {
#define X(kind, word, http, exit, retry) ERR_##kind,
	ERR_KINDS(X)
#undef X
};

struct err;

#define fallible __attribute__((warn_unused_result)) struct err *
#define OK ((struct err *)NULL)

// Constructors. The text is for the tenant: no host path, no pointer, nothing of another tenant.
#define err_new(kind, ...) err_new_at(__FILE__, __LINE__, ERR_##kind, 0, __VA_ARGS__)
// A system call failed on our side: the tenant sees "internal", the operator sees all of it.
#define err_sys(errnum, ...)                                                                       \
	err_new_at(__FILE__, __LINE__, ERR_INTERNAL, errnum, "internal", __VA_ARGS__)

fallible err_new_at(const char *file, int line, enum err_kind kind, int errnum, const char *reason,
		    const char *fmt, ...) __attribute__((format(printf, 6, 7)));

// NOT_FOUND: "there is no NOUN 'NAME'". A client's name is shown if it is printable ASCII of at
// most 64 bytes; else "there is no such NOUN".
fallible err_absent(const char *reason, const char *noun, struct str name);

// An error from a message, rebuilt: all texts are copied, `hint` may be NULL.
fallible err_from(enum err_kind kind, const char *reason, const char *message, const char *hint);

// Adds what the reader can do. Takes and returns the same error.
fallible err_hint(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// Adds "while ..." to the trail on the way up. Takes and returns the same error.
fallible err_while(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// Same trail, other kind and text: a lower error becomes what the tenant should see.
fallible err_recast(struct err *err, enum err_kind kind, const char *reason, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

// The only macro that returns: passes an error up, optionally with the operation.
#define TRY(call, ...)                                                                             \
	do {                                                                                       \
		struct err *try_ = (call);                                                         \
		if (__builtin_expect(try_ != NULL, 0))                                             \
			return __VA_OPT__(err_while)(try_ __VA_OPT__(, ) __VA_ARGS__);             \
	} while (0)

enum err_kind err_kind(const struct err *err);
const char *err_reason(const struct err *err); // "no_file"
const char *err_word(const struct err *err);   // "not_found"
int err_http(const struct err *err);	       // 404
int err_exit(const struct err *err);	       // 3
bool err_may_retry(const struct err *err);
const char *err_message(const struct err *err); // safe for a tenant
const char *err_hint_of(const struct err *err); // may be NULL
const char *err_trail(const struct err *err);	// for the log only

void err_free(struct err *err);
void err_drop_(struct err **err);
#define auto_err __attribute__((cleanup(err_drop_))) struct err *
