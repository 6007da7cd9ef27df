// Idle connections to servers in boxes, kept for the next request like nginx's `keepalive`: a
// request that finds one needs no connect. They are closed after a second, and when their box ends.
#pragma once

#include "http/relay.h"
#include "manager/table.h"

struct pool;

// Registered with the loop all the time, so that the next request needs no additional system calls.
struct pool_conn {
	struct link link;
	struct relay_conn relay;
	uint16_t port;
	char host[sizeof("localhost:65535")]; // the server's own name
	int64_t until_ms;
};

// Takes ownership of the fd, also on failure.
fallible pool_conn_new(struct loop *loop, int fd, uint16_t port, struct pool_conn **out);
void pool_conn_free(struct pool_conn *conn); // takes NULL

struct pool *pool_new(struct loop *loop);
void pool_drain(
	struct pool *pool); // closes idle connections and keeps no more. Takes NULL, as below
void pool_free(struct pool *pool);
// A connection to that port that the server has neither closed nor written to, or NULL.
struct pool_conn *pool_take(struct pool *pool, const struct entry *entry, uint16_t port);
// Takes ownership of the connection: kept, or closed at the limit.
void pool_give(struct pool *pool, struct entry *entry, struct pool_conn *conn);
