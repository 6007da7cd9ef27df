// A file carried inside the one binary that is installed: from NAME_start to NAME_end.
#define JOIN_(name, word) name##word
#define JOIN(name, word) JOIN_(name, word)

	.section JOIN(.rodata., EMBED_NAME), "a"
	.balign 4096
	.global JOIN(EMBED_NAME, _start)
	.hidden JOIN(EMBED_NAME, _start)
JOIN(EMBED_NAME, _start):
	.incbin EMBED_FILE
	.global JOIN(EMBED_NAME, _end)
	.hidden JOIN(EMBED_NAME, _end)
JOIN(EMBED_NAME, _end):
	.section .note.GNU-stack, "", %progbits
