// TLS lets a peer send messages that are no data, and answers some: new keys, tickets, warnings.
// The library handles all that have come in one call, so a peer that sends nothing else has the
// thread for as long as it likes. Here they are counted: so many at once, then one a second, which
// no honest peer comes near.
#pragma once

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>

#define CHATTER_MAX 16

struct chatter {
	int64_t since_ms;
	uint32_t count;
	bool fresh; // a record has begun whose first message is counted with it
	bool over;  // it is too much: nothing is read any more, and the connection is to be closed
};

// From the end of the greeting on. Both stay where they are until the ssl is freed.
void chatter_watch(struct chatter *chatter, SSL *ssl);
