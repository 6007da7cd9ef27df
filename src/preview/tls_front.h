// TLS in front of a server that knows nothing of it: each connection is greeted here, and its bytes
// go on in the clear over a socket of this process.
#pragma once

#include "base/str.h"
#include "http/server.h"

#define TLS_FRONT_MS 10000 // for the whole greeting

struct sockaddr_storage;
struct tls_front_keys; // a certificate with its key; connections that began with it keep it

// INVALID bad_config: what is wrong with them.
fallible tls_front_keys_read(struct str cert, struct str key, struct tls_front_keys **out);
void tls_front_keys_free(struct tls_front_keys *keys); // takes NULL

// Greets whoever came on `fd`, which is taken over, and hands the rest to `server`. Whoever does
// not speak TLS is hung up on. Does not wait.
void tls_front_start(struct loop *loop, const struct tls_front_keys *keys, int fd,
		     const struct sockaddr_storage *from, struct http_server *server);
uint32_t tls_front_count(void);	  // connections that are being greeted, or talked to
uint32_t tls_front_shaking(void); // of them, those that are being greeted
uint32_t tls_front_unsaid(void);  // those who have not been sent all that the server has for them
