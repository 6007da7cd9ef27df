#include "base/secret_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "tap.h"

// Whether the mapping that has the address is excluded from dumps.
static bool is_excluded(const void *address)
{
	FILE *smaps = fopen("/proc/self/smaps", "re");
	bool inside = false, excluded = false;
	char line[512];
	unsigned long from, to;

	while (smaps && fgets(line, sizeof(line), smaps)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = from <= (unsigned long)address && (unsigned long)address < to;
		else if (inside && !strncmp(line, "VmFlags:", 8))
			excluded = strstr(line, " dd") != NULL;
	}
	if (smaps)
		fclose(smaps);
	return excluded;
}

TEST(excluded, "a value is in memory that no dump has")
{
	char *text = secret_text_new("value", 5), *heap = malloc(64);

	CHECK_STR(text, "value");
	CHECK(is_excluded(text) && !is_excluded(heap));
	free(heap);
	secret_text_free(text);
	secret_text_free(NULL);
}

TEST(again, "pieces are wiped, and used again, in all sizes")
{
	char *old = secret_text_new("0123456789", 10), *all[64];
	static char large[SECRET_TEXT_MAX];

	secret_text_free(old);
	CHECK(memchr(old, '5', 16) == NULL);
	CHECK(secret_text_new("x", 1) == old);
	memset(large, 'a', sizeof(large));
	for (int i = 0; i < 64; i++)
		all[i] = secret_text_new(large, (size_t)i * 500);
	for (int i = 0; i < 64; i++) {
		CHECK(strlen(all[i]) == (size_t)i * 500);
		secret_text_free(all[i]);
	}
}

TEST(buffers, "a secret buffer leaves no copy where it was when it grows")
{
	struct buf buf = BUF_SECRET(1 << 20);
	char *first;

	buf_text(&buf, "a secret value");
	first = buf.at;
	for (int i = 0; i < 1000; i++)
		buf_text(&buf, "more and more ");
	CHECK(buf.at != first && buf_ok(&buf) && !strncmp(buf.at, "a secret value", 14));
	buf_done(&buf);
}
