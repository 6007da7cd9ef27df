#include "model/event.h"

#include <string.h>

static const char *const words[] = {
#define X(name, word, what) word,
	EVENT_KINDS(X)
#undef X
};

const char *event_word(enum event_kind kind)
{
	return words[kind];
}

bool event_is_kind(const char *word)
{
	for (size_t i = 0; i < EVENT_KIND_COUNT; i++)
		if (!strcmp(words[i], word))
			return true;
	return false;
}

bool event_matches(const char *kind, struct str wanted)
{
	size_t len = strlen(kind);

	return len >= wanted.len && !memcmp(kind, wanted.at, wanted.len) &&
	       (len == wanted.len || kind[wanted.len] == '.');
}
