// Pictures of strangers: what is read has as many pixels as it says.
#include "cli/png.h"

#include <stdlib.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct png png = {0};

	if (len > 65536 || !png_read((struct str){(const char *)bytes, len}, &png))
		return 0;
	MUST(png.width && png.height && png.width * png.height <= PNG_PIXELS_MAX && png.rgb);
	free(png.rgb);
	return 0;
}
