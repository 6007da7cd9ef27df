#include "fleet/portbook.h"

#include <stdlib.h>

#include "base/mem.h"

static size_t portbook_place_of(const struct portbook *book, uint16_t port)
{
	size_t i = 0;

	while (i < book->count && book->at[i].port < port)
		i++;
	return i;
}

const struct portbook_entry *portbook_find(const struct portbook *book, uint16_t port)
{
	size_t i = portbook_place_of(book, port);

	return i < book->count && book->at[i].port == port ? &book->at[i] : NULL;
}

struct portbook_entry *portbook_get(struct portbook *book, uint16_t port)
{
	return (struct portbook_entry *)portbook_find(book, port);
}

bool portbook_has_token(const struct portbook *book, struct str token, uint16_t but_port)
{
	for (size_t i = 0; i < book->count; i++)
		if (book->at[i].port != but_port && str_is(token, book->at[i].token))
			return true;
	return false;
}

struct portbook_entry *portbook_add(struct portbook *book, uint16_t port, struct str name)
{
	size_t i = portbook_place_of(book, port);

	if (book->count >= PORTBOOK_MAX)
		return NULL;
	book->at = mem_grow(book->at, book->count + 1, sizeof(*book->at));
	memmove(book->at + i + 1, book->at + i, (book->count - i) * sizeof(*book->at));
	book->at[i] = (struct portbook_entry){
		.port = port,
		.name = name.len ? mem_dup(name.at, name.len) : NULL,
	};
	ticket_make(book->at[i].token);
	book->count++;
	return &book->at[i];
}

bool portbook_drop(struct portbook *book, uint16_t port)
{
	size_t i = portbook_place_of(book, port);

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
