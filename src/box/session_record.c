// Records of commands are opened when they are first asked for: adoption only reads their numbers.
// At most RECORDS_MAX of a box are kept over a restart, the last ones. The tape of a command that
// was cut off by the end of its daemon has no end record.
#include "box/session_record.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "box/box_file.h"
#include "box/unit.h"

#define RECORD 'q'
#define RECORDS_MAX 4096

struct tape *session_record_tape(struct box *box, const char *session, uint64_t cap,
				 const struct tape_label *label)
{
	bool is_kept = box->features & TALK_CAN_RETURN;
	struct tape_label whole = *label;

	whole.session = str_of(session);
	whole.started_ms = clock_wall_ms();
	whole.cap = cap;
	return unit_new_tape(box, RECORD, is_kept ? ++box->session_records->files : 0, &whole);
}

void session_records_adopt(struct adoption *adoption)
{
	struct session_records *records = adoption->box->session_records;

	free(records->numbers);
	records->numbers = adoption_numbers(adoption, RECORD);
	if (records->numbers[0] > records->files)
		records->files = records->numbers[0];
	if (!records->numbers[0])
		free(take_ptr(records->numbers));
}

void session_records_remove(struct adoption *adoption)
{
	auto_free uint32_t *numbers = adoption_numbers(adoption, RECORD);
	struct session_records *records = adoption->box->session_records;

	for (const uint32_t *at = numbers; *at; at++)
		box_file_remove_later(adoption->box, RECORD, *at);
	if (numbers[0] > records->files)
		records->files = numbers[0];
}

void session_records_free(struct box *box)
{
	free(box->session_records->numbers);
	free(take_ptr(box->session_records));
}

static fallible session_record_open(struct box *box, uint32_t number,
				    const struct session_record_reader *reader)
{
	struct session_record record = {.exit_code = -1};
	struct tape_ending ending;
	struct tape_label label;

	TRY(unit_open_tape(box, RECORD, number, &record.tape, &label));
	if (!record.tape)
		return OK;
	if (tape_ending_of(record.tape, &ending))
		record.exit_code = ending.exit_code;
	else
		tape_end(record.tape);
	record.id = label.id;
	record.session = label.session;
	record.command = label.command;
	reader->each(reader->arg, &record);
	return OK;
}

static fallible session_records_open(struct box *box, uint32_t *numbers,
				     const struct session_record_reader *reader)
{
	size_t count = 0;
	struct err *err = OK;

	while (numbers[count])
		count++;
	for (; count > RECORDS_MAX; count--)
		box_file_remove_later(box, RECORD, numbers[count - 1]);
	while (count-- > 0 && !err)
		err = session_record_open(box, numbers[count], reader);
	return err;
}

fallible session_records_take(struct box *box, const struct session_record_reader *reader)
{
	struct session_records *records = box->session_records;
	uint32_t *numbers;
	struct err *err;

	while (records->is_taken)
		TRY(condition_wait(&records->taken, CLOCK_NEVER));
	numbers = take_ptr(records->numbers);
	if (!numbers)
		return OK;
	records->is_taken = true;
	box_ref(box);
	err = session_records_open(box, numbers, reader);
	free(numbers);
	records->is_taken = false;
	condition_signal(&records->taken);
	box_unref(box);
	return err;
}
