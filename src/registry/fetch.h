// One request to a registry over HTTP/1.1, and its reply as a stream. The server is untrusted:
// heads are bounded, every wait has a limit, every address is judged, and so is that of each
// redirect.
#pragma once

#include "base/str.h"
#include "codec/http1.h"
#include "egress/outbound.h"
#include "loop/loop.h"

#define FETCH_REDIRECTS 5

struct fetch_rules {
	struct loop *loop;
	const struct outbound *outbound; // addresses and certificates
	struct str insecure;		 // hosts that may be asked without TLS, with commas
	bool loopback;			 // loopback may be reached by its name, and without TLS
};

struct fetch_request {
	const char *url;	   // http:// or https://
	const char *authorization; // the value of the field; NULL: none
	const char *accept;	   // NULL: anything
	uint64_t from;		   // "Range: bytes=FROM-"; 0: all
	struct str form;	   // a POST of a form; at == NULL: a GET
};

struct fetch;

// Sends the request, follows redirects (to loopback only from there), and reads the head of the
// reply. FORBIDDEN not_global, insecure_registry; BAD_PEER registry_unreachable, tls_untrusted,
// bad_reply; TIMEOUT.
fallible fetch_open(const struct fetch_rules *rules, const struct fetch_request *request,
		    struct fetch **out);
void fetch_free(struct fetch *fetch); // takes NULL
static inline void auto_fetch_(struct fetch **fetch)
{
	fetch_free(*fetch);
}
#define auto_fetch on_exit_call(auto_fetch_) struct fetch *

int fetch_status(const struct fetch *fetch);
struct str fetch_field(const struct fetch *fetch, const char *name); // at == NULL: absent
const struct http1_head *fetch_head(const struct fetch *fetch);
// True if its host is loopback by its name or address.
bool fetch_is_loopback(const char *url);
// True if TLS protects it, or the operator has said that it needs none.
bool fetch_may_carry_secrets(const struct fetch_rules *rules, const char *url);
// At least one byte of the body, or *out = 0 at its end. BAD_PEER cut_body: it ended too early;
// TIMEOUT: TIMER_REGISTRY_SILENCE without a byte.
fallible fetch_read(struct fetch *fetch, void *room, size_t size, size_t *out);
// From now on a document is read: all of it must be there within TIMER_REGISTRY_ANSWER.
void fetch_hurry(struct fetch *fetch);
