// Connections to servers in boxes that wait for the next request, as nginx's `keepalive` does: a
// visit that finds one needs no dial. They are closed after a second, and with their box.
#pragma once

#include "fleet/table.h"

struct pool;

struct pool *pool_new(struct loop *loop);
void pool_drain(struct pool *pool); // closes what waits; nothing more is kept. Takes NULL, as below
void pool_free(struct pool *pool);
// A connection to that port that the server has neither closed nor written to, or -1.
int pool_take(struct pool *pool, const struct entry *entry, uint16_t port);
// Takes the connection over: kept, or closed where there are many.
void pool_give(struct pool *pool, struct entry *entry, uint16_t port, int fd);
