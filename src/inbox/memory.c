#include "inbox/memory.h"

#include <stdio.h>

#include "base/secret.h"

struct memory *memory_of(const struct http *x)
{
	struct door *door = door_of(x);
	struct memory *memory = door->memory;

	if (memory)
		return memory;
	memory = mem_new_of(struct memory);
	memory->loop = door->loop;
	link_init(&memory->uploads);
	link_init(&memory->trees);
	secret_hex(memory->life, 4);
	door->memory = memory;
	return memory;
}

void memory_name(struct memory *memory, char out[32])
{
	snprintf(out, 32, "watch-%s-%llu", memory->life, (unsigned long long)++memory->last);
}
