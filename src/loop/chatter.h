// A limit on TLS messages that are no data: key updates, tickets, warnings. The library handles all
// received messages in one call, so a peer that sends only these can occupy the thread. The allowed
// burst and rate are far above those of an honest peer.
#pragma once

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>

#define CHATTER_MAX 16

struct chatter {
	int64_t since_ms;
	uint32_t count;
	bool fresh; // a record has begun whose first message is counted with it
	bool over;  // over the limit: nothing is read any more, and the connection must be closed
};

// From the end of the handshake on. Neither may be moved until the ssl is freed.
void chatter_watch(struct chatter *chatter, SSL *ssl);
