#include "base/weak.h"

#ifdef COVE_WEAK

#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"

_Static_assert(WEAK_COUNT <= 64, "a bit each");

static const struct {
	const char *word, *what;
} defences[] = {
#define X(name, word, what) {word, what},
	WEAK_DEFENCES(X)
#undef X
};

static uint64_t switched_off;

bool weak_is(enum weak defence)
{
	return switched_off >> defence & 1;
}

uint64_t weak_get(void)
{
	return switched_off;
}

void weak_set(uint64_t off)
{
	switched_off = off;
}

static _Noreturn void refuse(struct str word)
{
	fprintf(stderr, "cove: COVE_WEAKEN: there is no defence '" STR_FMT "', only:\n",
		STR_ARG(word));
	for (int i = 0; i < WEAK_COUNT; i++)
		fprintf(stderr, "  %-14s %s\n", defences[i].word, defences[i].what);
	exit(2);
}

void weak_open(void)
{
	const char *text = getenv("COVE_WEAKEN");
	struct str rest = str_of(text ? text : ""), word;

	while (rest.len && str_cut(&rest, ',', &word)) {
		int i = 0;

		while (i < WEAK_COUNT && !str_is(word, defences[i].word))
			i++;
		if (i == WEAK_COUNT)
			refuse(word);
		switched_off |= 1ull << i;
	}
}

#endif
