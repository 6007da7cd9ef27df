// Names of images: what is accepted has one canonical form, which reads as itself, and nothing in
// it can leave the path of a request.
#include "types/reference.h"

#include <string.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct reference first, second;
	auto_buf text = BUF_INIT(2 * REFERENCE_MAX), name = BUF_INIT(2 * REFERENCE_MAX);
	auto_err err = reference_read((struct str){(const char *)bytes, len}, &first);

	if (err)
		return 0;
	reference_write(&first, &text);
	err = reference_read(buf_view(&text), &second);
	MUST(!err && !strcmp(first.host, second.host) && !strcmp(first.path, second.path));
	MUST(!strcmp(first.tag, second.tag) && !strcmp(first.digest, second.digest));
	MUST(!first.tag[0] != !first.digest[0] && first.host[0] && first.path[0]);
	MUST(!strstr(first.path, "..") && !strstr(first.path, "//") &&
	     !strpbrk(text.at, " \r\n?#%"));
	reference_template(&first, &name);
	MUST(name.len && !strchr(name.at, '/'));
	return 0;
}
