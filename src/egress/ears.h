// Listeners that wait for news of a box's ledger. Only boxes that somebody listens to cost
// anything.
#pragma once

#include <stdint.h>

#include "base/err.h"

struct ears; // all of them
struct ear;  // one box's, shared by those who listen

struct ears *ears_new(void);
void ears_free(struct ears *ears); // whoever still listens hears nothing any more; takes NULL
void ears_ring(struct ears *ears, const char *box);

struct ear *ear_new(struct ears *ears, const char *box);
void ear_free(struct ear *ear); // takes NULL
static inline void auto_ear_(struct ear **ear)
{
	ear_free(*ear);
}
#define auto_ear on_exit_call(auto_ear_) struct ear *
// How often it has rung. Who looks at the ledger first asks this, then waits for more than it.
uint64_t ear_count(const struct ear *ear);
// Until it has rung more often than that; TIMEOUT.
fallible ear_wait(struct ear *ear, uint64_t count, int64_t deadline);
