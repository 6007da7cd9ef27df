// .dockerignore files of strangers: a path and rules, parted by a NUL. What the rules say of a
// path, they say of everything beneath it unless a rule takes back in.
#include "codec/dockerignore.h"

#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str rules = {(const char *)bytes, len}, path;
	const char *nul = len ? memchr(bytes, 0, len) : NULL;
	char beneath[512];
	int count;

	if (len > 4096 || !nul)
		return 0;
	str_cut(&rules, 0, &path);
	if (!path.len || path.len > 256)
		return 0;
	count = snprintf(beneath, sizeof(beneath), STR_FMT "/x", STR_ARG(path));
	if (dockerignore_drops(rules, path) && !dockerignore_has_exceptions(rules))
		MUST(dockerignore_drops(rules, (struct str){beneath, (size_t)count}));
	return 0;
}
