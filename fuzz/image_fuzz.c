// The configuration of an image, as the daemon reads it: what was read can be written, and is the
// same when it is read again.
#include "types/image.h"

#include <assert.h>
#include <string.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	auto_image first = {0}, second = {0};
	auto_buf text = BUF_INIT(4 * IMAGE_BYTES_MAX);
	auto_json config = NULL;
	auto_err err = image_read((struct str){(const char *)bytes, len}, &first);

	if (err || len > IMAGE_BYTES_MAX)
		return 0;
	assert(image_is_user(str_of(first.user)));
	assert(!first.workdir[0] || image_is_workdir(str_of(first.workdir)));
	err = json_read((struct str){(const char *)bytes, len}, &config);
	assert(!err);
	err = image_write(config, &text);
	if (err)
		return 0;
	err = image_read(buf_view(&text), &second);
	assert(!err && second.env.count == first.env.count);
	assert(!strcmp(first.user, second.user) && !strcmp(first.workdir, second.workdir));
	return 0;
}
