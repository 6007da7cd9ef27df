// Made at first use and kept in the gateway until the daemon exits. It is not stored: after a
// restart parked uploads are gone and watch names are unknown, which clients see as "restarted".
#include "toolbox/watch_state.h"

#include <stdio.h>

#include "base/secret.h"

struct watch_state *watch_state_of(const struct http *x)
{
	struct gateway *gateway = gateway_of(x);
	struct watch_state *watches = gateway->watches;

	if (watches)
		return watches;
	watches = mem_new_of(struct watch_state);
	watches->loop = gateway->loop;
	link_init(&watches->uploads);
	link_init(&watches->trees);
	secret_hex(watches->life, 4);
	gateway->watches = watches;
	return watches;
}

void watch_state_name(struct watch_state *watches, char out[32])
{
	snprintf(out, 32, "watch-%s-%llu", watches->life, (unsigned long long)++watches->last);
}
