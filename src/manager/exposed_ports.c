// The register of exposed ports of one box: an array sorted by port number. Memory only; the caller
// writes it to the store.
#include "manager/exposed_ports.h"

#include <stdlib.h>

#include "base/mem.h"

static size_t exposed_ports_place_of(const struct exposed_ports *book, uint16_t port)
{
	size_t i = 0;

	while (i < book->count && book->at[i].port < port)
		i++;
	return i;
}

const struct exposed_ports_entry *exposed_ports_find(const struct exposed_ports *book,
						     uint16_t port)
{
	size_t i = exposed_ports_place_of(book, port);

	return i < book->count && book->at[i].port == port ? &book->at[i] : NULL;
}

struct exposed_ports_entry *exposed_ports_get(struct exposed_ports *book, uint16_t port)
{
	return (struct exposed_ports_entry *)exposed_ports_find(book, port);
}

bool exposed_ports_has_token(const struct exposed_ports *book, struct str token, uint16_t but_port)
{
	for (size_t i = 0; i < book->count; i++)
		if (book->at[i].port != but_port && str_is(token, book->at[i].token))
			return true;
	return false;
}

struct exposed_ports_entry *exposed_ports_add(struct exposed_ports *book, uint16_t port,
					      struct str name)
{
	size_t i = exposed_ports_place_of(book, port);

	if (book->count >= EXPOSED_PORTS_MAX)
		return NULL;
	book->at = mem_grow(book->at, book->count + 1, sizeof(*book->at));
	memmove(book->at + i + 1, book->at + i, (book->count - i) * sizeof(*book->at));
	book->at[i] = (struct exposed_ports_entry){
		.port = port,
		.name = name.len ? mem_dup(name.at, name.len) : NULL,
	};
	preview_token_make(book->at[i].token);
	book->count++;
	return &book->at[i];
}

bool exposed_ports_drop(struct exposed_ports *book, uint16_t port)
{
	size_t i = exposed_ports_place_of(book, port);

	if (i == book->count || book->at[i].port != port)
		return false;
	free(book->at[i].name);
	book->count--;
	memmove(book->at + i, book->at + i + 1, (book->count - i) * sizeof(*book->at));
	return true;
}

void exposed_ports_done(struct exposed_ports *book)
{
	for (size_t i = 0; i < book->count; i++)
		free(book->at[i].name);
	free(book->at);
	*book = (struct exposed_ports){0};
}
