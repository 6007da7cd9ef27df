// A table of three names, and one that remembers everything: what the small one still knows is what
// the big one knows too, and an address never comes to mean another name.
#include "types/names.h"

#include "fuzz.h"

#define KINDS 32

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct names *small = names_new(3), *big = names_new(NAMES_MAX);
	char owners[1024][4] = {{0}}; // by the last two bytes of an address
	size_t made = 0;

	for (size_t i = 0; i < len && made < 1000; i++) {
		char name[4] = {'n', (char)('a' + bytes[i] % KINDS), 0};
		struct address address, other;
		size_t before = names_count(small), number;

		names_give(small, name, &address);
		names_give(big, name, &other);
		MUST(names_is_synthetic(&address) && !address_is_global(&address));
		number = (size_t)address.at[2] << 8 | address.at[3];
		made = number > made ? number : made;
		MUST(number < 1024 && (!owners[number][0] || !strcmp(owners[number], name)));
		memcpy(owners[number], name, sizeof(name));
		MUST(!strcmp(names_find(small, &address), name));
		MUST(!strcmp(names_find(big, &other), name));
		MUST(names_count(small) >= before && names_count(small) <= 3);
		// A look at another one is a use of it.
		address.at[3] = bytes[i] >> 4;
		if (names_find(small, &address))
			MUST(!strcmp(names_find(small, &address), owners[address.at[3]]) ||
			     address.at[2]);
	}
	MUST(names_count(big) <= KINDS);
	names_free(small);
	names_free(big);
	return 0;
}
