// Bytes at any times become lines that are read back; any line as head or event is read or refused.
#include "codec/cast.h"

#include "fuzz.h"

static void read_line(struct str line)
{
	struct json *head_json = NULL, *event_json = NULL;
	struct cast_event event;
	struct cast_head head;
	struct err *err = cast_read_head(line, &head_json, &head);

	MUST(err || (head.width && head.height));
	err_free(err);
	err = cast_read_event(line, &event_json, &event);
	MUST(err || event.kind);
	err_free(err);
	json_free(head_json);
	json_free(event_json);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str text = {(const char *)bytes, len}, line;
	struct cast_time times[2] = {{len ? bytes[0] % 8 : 0, 10}, {len > 1 ? bytes[1] : 9, 5000}};
	struct cast_writer writer = {.times = times, .time_count = 2};
	struct cast_head head = {.width = 80, .height = 24};
	auto_buf out = BUF_INIT(1 << 20);
	uint64_t last = 0, offset = 0;
	struct str rest;
	bool first = true;

	if (len > 4096)
		return 0;
	read_line(text);
	if (times[1].offset < times[0].offset)
		times[1].offset = times[0].offset;
	cast_begin(&writer, &head, &out);
	while (text.len) {
		size_t step = 1 + (size_t)bytes[0] % 7 < text.len ? 1 + (size_t)bytes[0] % 7
								  : text.len;

		cast_add(&writer, (int)(offset % 2), (struct str){text.at, step}, offset, &out);
		offset += step;
		text = str_skip(text, step);
	}
	cast_end(&writer, &out);
	MUST(buf_ok(&out));
	rest = buf_view(&out);
	while (rest.len && str_cut(&rest, '\n', &line) && line.len) {
		struct json *json = NULL;
		struct cast_event event = {0};

		if (first)
			MUST(!cast_read_head(line, &json, &head));
		else
			MUST(!cast_read_event(line, &json, &event) && event.at_us >= last);
		last = event.at_us;
		first = false;
		json_free(json);
	}
	return 0;
}
