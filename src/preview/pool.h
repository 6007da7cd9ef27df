// Connections to servers in boxes that wait for the next request, as nginx's `keepalive` does: a
// visit that finds one needs no dial. They are closed after a second, and with their box.
#pragma once

#include "loop/stream.h"
#include "manager/table.h"

struct pool;

// Watched all the time, so that the next request needs no more calls than the request itself.
struct pool_conn {
	struct link link;
	struct stream stream;
	uint16_t port;
	int64_t until_ms;
};

// Takes the fd over, also on failure.
fallible pool_conn_new(struct loop *loop, int fd, uint16_t port, struct pool_conn **out);
void pool_conn_free(struct pool_conn *conn); // takes NULL

struct pool *pool_new(struct loop *loop);
void pool_drain(struct pool *pool); // closes what waits; nothing more is kept. Takes NULL, as below
void pool_free(struct pool *pool);
// A connection to that port that the server has neither closed nor written to, or NULL.
struct pool_conn *pool_take(struct pool *pool, const struct entry *entry, uint16_t port);
// Takes the connection over: kept, or closed where there are many.
void pool_give(struct pool *pool, struct entry *entry, struct pool_conn *conn);
