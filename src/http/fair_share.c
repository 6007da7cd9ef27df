// Accounts are found by name and never removed: their number is bounded by that of tenants. The
// rule is one comparison, so entering and leaving a request costs no search.
#include "http/fair_share.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/weak.h"

struct shares {
	struct map *by_name;
	uint32_t busy;
};

struct shares *shares_new(void)
{
	struct shares *shares = mem_new_of(struct shares);

	shares->by_name = map_new();
	return shares;
}

void shares_free(struct shares *shares)
{
	struct str name;
	void *fair_share;

	if (!shares)
		return;
	for (size_t at = 0; map_next(shares->by_name, &at, &name, &fair_share);)
		free(fair_share);
	map_free(shares->by_name);
	free(shares);
}

struct fair_share *shares_of(struct shares *shares, struct str name, uint32_t weight)
{
	struct fair_share *fair_share = map_get(shares->by_name, name);

	if (fair_share)
		return fair_share;
	fair_share = mem_new_of(struct fair_share);
	fair_share->weight = weight;
	map_put(shares->by_name, name, fair_share);
	return fair_share;
}

bool fair_share_is_fair(const struct fair_share *fair_share, size_t mine, size_t all, size_t max)
{
	return all <= max && (weak(FAIR_SHARES) || mine <= fair_share->weight * (max - all));
}

fallible fair_share_enter(struct shares *shares, struct fair_share *fair_share, uint32_t max)
{
	if (!fair_share_is_fair(fair_share, fair_share->busy + 1, shares->busy + 1, max))
		return err_hint(err_new(EXHAUSTED, "fair_share_exceeded",
					"you have %u requests under way, and others need room",
					fair_share->busy),
				"end streams and terminals that are not read, or carry many "
				"requests on one WebSocket");
	fair_share->busy++;
	shares->busy++;
	return OK;
}

void fair_share_leave(struct shares *shares, struct fair_share *fair_share)
{
	fair_share->busy--;
	shares->busy--;
}
