// Ignore files of strangers: a path and an ignore file, parted by a NUL. A text without special
// characters matches itself, and a rule with a '!' undoes the one before it.
#include "codec/ignore.h"

#include <stdlib.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str rules = {(const char *)bytes, len}, path;
	const char *nul = len ? memchr(bytes, 0, len) : NULL;

	if (len > 4096 || !nul)
		return 0;
	str_cut(&rules, 0, &path);
	ignore_judge(rules, path, true);
	ignore_judge(rules, path, false);
	ignore_match(rules, path);
	if (path.len && !memchr(path.at, '\\', path.len) && !memchr(path.at, '[', path.len) &&
	    !memchr(path.at, '*', path.len) && !memchr(path.at, '?', path.len))
		MUST(ignore_match(path, path));
	return 0;
}
