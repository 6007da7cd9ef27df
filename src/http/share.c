#include "http/share.h"

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
	void *share;

	if (!shares)
		return;
	for (size_t at = 0; map_next(shares->by_name, &at, &name, &share);)
		free(share);
	map_free(shares->by_name);
	free(shares);
}

struct share *shares_of(struct shares *shares, struct str name, uint32_t weight)
{
	struct share *share = map_get(shares->by_name, name);

	if (share)
		return share;
	share = mem_new_of(struct share);
	share->weight = weight;
	map_put(shares->by_name, name, share);
	return share;
}

bool share_is_fair(const struct share *share, size_t mine, size_t all, size_t max)
{
	return all <= max && (weak(SHARES) || mine <= share->weight * (max - all));
}

fallible share_enter(struct shares *shares, struct share *share, uint32_t max)
{
	if (!share_is_fair(share, share->busy + 1, shares->busy + 1, max))
		return err_hint(err_new(EXHAUSTED, "share_spent",
					"you have %u requests under way, and others need room",
					share->busy),
				"end streams and terminals that are not read, or carry many "
				"requests on one WebSocket");
	share->busy++;
	shares->busy++;
	return OK;
}

void share_leave(struct shares *shares, struct share *share)
{
	share->busy--;
	shares->busy--;
}
