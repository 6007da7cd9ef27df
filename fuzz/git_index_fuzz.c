// The index of a repository of strangers: paths that are read are valid and in order.
#include "sync/git_index.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	auto_file_list list = {0};
	struct err *err = git_index_read((struct str){(const char *)bytes, len}, &list);

	if (err) {
		err_free(err);
		MUST(!list.count);
		return 0;
	}
	for (size_t i = 0; i < list.count; i++) {
		MUST(file_list_is_path(str_of(list.at[i].path)));
		MUST(!i || strcmp(list.at[i - 1].path, list.at[i].path) < 0);
	}
	return 0;
}
