// Patterns of strangers: pattern and text, parted by a NUL. A text without special characters
// matches itself; whatever matches a name hits the path that ends with it.
#include "codec/glob.h"

#include <stdlib.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	char *text, *glob;

	if (len > 512)
		return 0;
	text = malloc(len + 2);
	memcpy(text, bytes, len);
	text[len] = text[len + 1] = 0;
	glob = text + strlen(text) + 1;
	if (glob > text + len)
		glob = text + len;
	glob_match(glob, text);
	if (glob_names(glob, text) && !strchr(glob, '/') && *text && !strchr(text, '/'))
		MUST(glob_hits(glob, text));
	if (!strpbrk(text, "*?[\\"))
		MUST(glob_match(text, text));
	free(text);
	return 0;
}
