// Manifests of syncs as a server sends them: what is read is written as the same bytes, and its
// paths are in order.
#include "sync/file_list.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	auto_sync_state state = {0};
	auto_buf text = BUF_INIT(1 << 20);
	struct str in = {(const char *)bytes, len};
	struct err *err = sync_state_read(in, &state);

	if (err) {
		err_free(err);
		MUST(!state.base.at && !state.machine);
		return 0;
	}
	for (size_t i = 0; i < state.base.count; i++) {
		MUST(file_list_is_path(str_of(state.base.at[i].path)));
		MUST(file_list_find(&state.base, state.base.at[i].path) == &state.base.at[i]);
	}
	sync_state_write(&state, &text);
	sync_state_done(&state);
	MUST(!sync_state_read(buf_view(&text), &state));
	return 0;
}
