// TLS termination for a server without TLS: the handshake is done here, and decrypted bytes go to
// the server over a socketpair.
#pragma once

#include "base/str.h"
#include "http/server.h"

#define TLS_FRONT_MS 10000 // for the whole handshake

struct sockaddr_storage;
struct tls_front_keys; // a certificate with its key; existing connections keep theirs

// INVALID bad_config: the fault.
fallible tls_front_keys_read(struct str cert, struct str key, struct tls_front_keys **out);
void tls_front_keys_free(struct tls_front_keys *keys); // takes NULL

// Does the handshake on `fd`, of which it takes ownership, and passes the connection to `server`. A
// client that does not speak TLS is disconnected. Does not wait.
void tls_front_start(struct loop *loop, const struct tls_front_keys *keys, int fd,
		     const struct sockaddr_storage *from, struct http_server *server);
uint32_t tls_front_count(void);	  // connections in handshake or open
uint32_t tls_front_shaking(void); // connections in handshake
uint32_t tls_front_unsaid(void);  // connections with data of the server that is not sent yet
