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

// An object without this note would take branch protection (BTI, IBT) from the whole program.
#if defined(__aarch64__) && defined(__ARM_FEATURE_BTI_DEFAULT)
#define PROPERTY 0xc0000000 // GNU_PROPERTY_AARCH64_FEATURE_1_AND
#define FEATURES 3	    // BTI, PAC
#elif defined(__x86_64__) && defined(__CET__)
#define PROPERTY 0xc0000002 // GNU_PROPERTY_X86_FEATURE_1_AND
#define FEATURES 1	    // IBT
#endif
#ifdef PROPERTY
	.section .note.gnu.property, "a"
	.balign 8
	.long 4, 16, 5 // lengths of name and properties, NT_GNU_PROPERTY_TYPE_0
	.asciz "GNU"
	.long PROPERTY, 4, FEATURES, 0
#endif
