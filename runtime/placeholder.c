int heddle_placeholder;
