#include "fleet/portbook.h"

#include <stdlib.h>

#include "base/mem.h"

static size_t place_of(const struct portbook *book, uint16_t port)
{
	size_t i = 0;

	while (i < book->count && book->at[i].port < port)
		i++;
	return i;
}

const struct portbook_entry *portbook_find(const struct portbook *book, uint16_t port)
{
	size_t i = place_of(book, port);

	return i < book->count && book->at[i].port == port ? &book->at[i] : NULL;
}

bool portbook_add(struct portbook *book, uint16_t port, struct str name)
{
	size_t i = place_of(book, port);

	if (book->count >= PORTBOOK_MAX)
		return false;
	book->at = mem_grow(book->at, book->count + 1, sizeof(*book->at));
	memmove(book->at + i + 1, book->at + i, (book->count - i) * sizeof(*book->at));
	book->at[i] = (struct portbook_entry){
		.port = port,
		.name = name.len ? mem_dup(name.at, name.len) : NULL,
	};
	book->count++;
	return true;
}

bool portbook_drop(struct portbook *book, uint16_t port)
{
	size_t i = place_of(book, port);

	if (i == book->count || book->at[i].port != port)
		return false;
	free(book->at[i].name);
	book->count--;
	memmove(book->at + i, book->at + i + 1, (book->count - i) * sizeof(*book->at));
	return true;
}

void portbook_done(struct portbook *book)
{
	for (size_t i = 0; i < book->count; i++)
		free(book->at[i].name);
	free(book->at);
	*book = (struct portbook){0};
}
