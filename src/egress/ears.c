#include "egress/ears.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/mem.h"
#include "loop/task.h"

struct ears {
	struct map *by_box;
};

struct ear {
	struct ears *ears; // NULL: they are gone
	char *box;
	struct bell bell;
	uint64_t count;
	uint32_t holders;
};

struct ears *ears_new(void)
{
	struct ears *ears = mem_new_of(struct ears);

	ears->by_box = map_new();
	return ears;
}

void ears_free(struct ears *ears)
{
	size_t at = 0;
	struct str box;
	void *ear;

	if (!ears)
		return;
	while (map_next(ears->by_box, &at, &box, &ear))
		((struct ear *)ear)->ears = NULL;
	map_free(ears->by_box);
	free(ears);
}

void ears_ring(struct ears *ears, const char *box)
{
	struct ear *ear = map_count(ears->by_box) ? map_get(ears->by_box, str_of(box)) : NULL;

	if (!ear)
		return;
	ear->count++;
	bell_ring(&ear->bell);
}

struct ear *ear_new(struct ears *ears, const char *box)
{
	struct ear *ear = map_get(ears->by_box, str_of(box));

	if (!ear) {
		ear = mem_new_of(struct ear);
		ear->ears = ears;
		ear->box = mem_str(box);
		bell_init(&ear->bell);
		map_put(ears->by_box, str_of(box), ear);
	}
	ear->holders++;
	return ear;
}

void ear_free(struct ear *ear)
{
	if (!ear || --ear->holders)
		return;
	if (ear->ears)
		map_take(ear->ears->by_box, str_of(ear->box));
	free(ear->box);
	free(ear);
}

uint64_t ear_count(const struct ear *ear)
{
	return ear->count;
}

fallible ear_wait(struct ear *ear, uint64_t count, int64_t deadline)
{
	while (ear->count == count)
		TRY(bell_wait(&ear->bell, deadline));
	return OK;
}
